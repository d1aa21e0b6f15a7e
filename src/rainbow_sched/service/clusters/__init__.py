"""The fleet: registration, rules, reported state, removal."""
