# For cmake --preset aarch64: Debian's cross compiler (gcc-aarch64-linux-gnu, libc6-dev-arm64-cross); what is built can be
# tried by qemu-aarch64 (qemu-user).
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64 -L /usr/aarch64-linux-gnu)
# codecs are opened when they are needed; their headers are this machine's, which say the same on every 64-bit Linux
set(CMAKE_C_FLAGS_INIT "-idirafter /usr/include/${CMAKE_HOST_SYSTEM_PROCESSOR}-linux-gnu")
