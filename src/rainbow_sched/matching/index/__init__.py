"""Tables over the whole fleet that answer most requests without a search."""
