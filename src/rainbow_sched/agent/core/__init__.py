"""Pure part of the agent: the reactor, its state and its messages; no I/O, time is an argument."""
