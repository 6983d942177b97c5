"""Is a machine fit for measurements, and what are its limits?"""
