"""Read access: job lists, events, output, explanations."""
