"""One turn of the agent: prompt, model, tools, transcript. Importing this loads nothing."""
