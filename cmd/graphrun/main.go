// Command graphrun infers, plans and runs dataflow graphs over strided tensors: see package cli.
package main

import "github.com/graphrun/graphrun/cli"

func main() { cli.Main() }
