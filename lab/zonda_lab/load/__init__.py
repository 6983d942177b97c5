"""Load generators: command lines, output, and the machines they run on."""
