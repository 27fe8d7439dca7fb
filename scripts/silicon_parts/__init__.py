"""The parts of scripts/silicon: what runs, what each part of docs/results/silicon.md is made of, and the page itself."""
