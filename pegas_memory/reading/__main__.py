from pegas_memory.reading.child import main

main()
