"""What can be said about a problem, as plain data: the command line prints it, and Studio shows it."""
