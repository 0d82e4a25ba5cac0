"""How much Studio takes on: what is larger is for the command line and for Python."""

BODY = 8 * 1024 * 1024  # bytes of one request
CELLS = 40_000
HORIZON = 10_000
EVENTS = 200
RULES = 200
TEXT = 20_000  # characters of one text
DEMONSTRATIONS = 10_000
POSITIONS = 1_000_000  # of all demonstrations together
SAMPLES = 1_000
BEST = 100
LISTENERS = 32  # windows that listen to events
STATES = 50_000  # of a world from a file
CHECK = 3.0  # seconds of a live check
WAIT = 5.0  # seconds for which a request may wait for a job
