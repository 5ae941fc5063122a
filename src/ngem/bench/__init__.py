"""Speed as ratios: what is measured is a table of rows, measured in turns on this machine."""
