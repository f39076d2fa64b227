// Command graphrun-gpu is the command graphrun with the command devices.
package main

import "github.com/graphrun/graphrun/cli"

func main() { cli.Main(cli.WithCommand(devicesCommand())) }
