"""Results for people: words, pictures, and a report in one file."""
