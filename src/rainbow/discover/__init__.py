"""What is this machine or cluster? Answers with graphs and subsystems."""
