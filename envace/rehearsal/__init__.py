"""Private rehearsal at test time: strategies and the memory they build."""
