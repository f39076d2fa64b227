// Command graphrun-gpu is the command graphrun with GPUs: --device accepts vulkan and cuda, and the subcommand devices
// lists the devices.
package main

import "github.com/graphrun/graphrun/cli"

func main() { cli.Main(cli.WithCommand(devicesCommand())) }
