"""The memory of jobs: what each stage takes by the headers of its images."""
