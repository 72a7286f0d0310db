from pegas_memory.mcp_server_stdio import main

main()
