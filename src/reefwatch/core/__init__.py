"""The words: frozen values that every room shares. Standard library only."""
