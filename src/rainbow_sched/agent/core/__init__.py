"""The pure part of the agent: reactor, state and messages. No I/O; the time is an argument."""
