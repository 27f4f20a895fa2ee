"""What is there: the machine, its libraries, and the code that they carry for a GPU."""
