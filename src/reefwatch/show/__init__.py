"""The voice: a Report as text, json, html, sarif, junit."""
