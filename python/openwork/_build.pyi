VERSION: str
PYTHON: str
TORCH: str
