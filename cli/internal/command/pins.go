package command

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/graphrun/graphrun/cli/internal/exit"
	"github.com/graphrun/graphrun/graph"
)

// PinFlag adds --pin.
func PinFlag(cmd *cobra.Command, pins *[]string) {
	cmd.Flags().StringArrayVar(pins, "pin", nil,
		"pin the layout of a value under every strategy, `NAME=FORMAT` or NAME=order:0,2,3,1 (other layouts are copies "+
			"of it), or the implementation or the place of a node, NODE=impl:NAME or NODE=device:NAME; NODE may be a "+
			"step as plan shows it, such as conv1+act1 (repeatable)")
}

// ApplyPins applies the values of --pin and infers the graph again.
func ApplyPins(ctx context.Context, g *graph.Graph, pins []string) error {
	type target struct { // the object of a pin: the layout of a value, or the implementation of a node
		name     string
		isLayout bool
	}
	pinByTarget := map[target]graph.Pin{}
	for _, text := range pins {
		// The name of a value may contain "=", so the last "=" separates the name from the pin.
		equals := strings.LastIndexByte(text, '=')
		if equals <= 0 {
			return exit.UsageErrorf("--pin %s: want NAME=FORMAT, NAME=order:0,2,3,1, NODE=impl:NAME or NODE=device:NAME", text)
		}
		name := text[:equals]
		pin, err := graph.ParsePin(text[equals+1:])
		if err == nil {
			err = g.Pin(name, pin)
		}
		if err != nil {
			return exit.UsageErrorf("--pin %s: %w", text, err)
		}
		pinned := target{name, pin.SetsLayout()}
		if before, exists := pinByTarget[pinned]; exists && before != pin {
			return exit.UsageErrorf("--pin gives %s twice: %v and %v", name, before, pin)
		}
		pinByTarget[pinned] = pin
	}
	if len(pins) == 0 {
		return nil
	}
	if err := Infer(ctx, g); err != nil { // a pin changes the layouts of views, too
		return exit.UsageErrorf("--pin %s: %w", strings.Join(pins, ", "), err)
	}
	return nil
}
