"""The rack service's REST interface: verdict, reasons and history over HTTP (CONTRACTS §5).

Everything is answered from memory, by the newest evaluation; nothing here judges. FastAPI and pydantic are
imported below this package only, so that the agent, which runs beside jobs, never pays for them.
"""
