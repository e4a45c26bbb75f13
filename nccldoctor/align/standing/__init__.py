"""Where the main thread of each rank stands, by stacks: stances, looks at the job, and who stands outside."""
