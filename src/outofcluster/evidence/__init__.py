"""What the records themselves show: how the two sides of a split differ, and which clusters are probably one entity."""
