"""Find out what this machine or cluster is, as graphs and subsystems."""
