"""What is audited: records, targets, clusters, folds and metrics, checked once before any model is fitted."""
