"""Choose one of the clusters that fit and record why; pure."""
