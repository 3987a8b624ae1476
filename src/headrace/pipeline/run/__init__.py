"""Running a job: launch, supervise, checkpoint, batch, recovery."""
