"""Speed as ratios, measured in turns on this machine; `run.bench` is the command."""
