"""Options and arguments shared by several commands, and how they become requests."""
