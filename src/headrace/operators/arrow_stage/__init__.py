"""The steps between a topic and an operator on whole Arrow columns: the plan that Spark has analyzed is read, and
evaluated with the same results. What is not certainly the same is not translated, and Spark evaluates it."""
