"""Answers of a job to questions: the declaration, the state that they are made of, and the thread that gives them."""
