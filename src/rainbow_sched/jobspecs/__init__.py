"""Read job descriptions in every supported dialect into one Request; pure."""
