"""What is measured, a module for each subject."""
