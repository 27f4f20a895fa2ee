"""What this machine is: cards, driver, device nodes, variables, wheels. No ROCm tool, no torch."""
