package command

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/graphrun/graphrun/cli/internal/exit"
	"github.com/graphrun/graphrun/graph"
)

func PinFlag(cmd *cobra.Command, pins *[]string) {
	cmd.Flags().StringArrayVar(pins, "pin", nil,
		"demand a layout of a value under every strategy, `NAME=FORMAT` or NAME=order:0,2,3,1 (its other layouts are copies "+
			"of that), or how a node is computed, NODE=impl:NAME (repeatable)")
}

// ApplyPins demands what --pin says, and infers again.
func ApplyPins(ctx context.Context, g *graph.Graph, pins []string) error {
	type demanded struct {
		name string
		lays bool
	}
	said := map[demanded]graph.Pin{}
	for _, text := range pins {
		// The name of a value may have = in it, a pin has none.
		at := strings.LastIndexByte(text, '=')
		if at <= 0 {
			return exit.Wrongf("--pin %s: want NAME=FORMAT, NAME=order:0,2,3,1 or NODE=impl:NAME", text)
		}
		name := text[:at]
		p, err := graph.ParsePin(text[at+1:])
		if err == nil {
			err = g.Pin(name, p)
		}
		if err != nil {
			return exit.Wrongf("--pin %s: %w", text, err)
		}
		what := demanded{name, p.Lays()}
		if before, twice := said[what]; twice && before != p {
			return exit.Wrongf("--pin gives %s twice: %v and %v", name, before, p)
		}
		said[what] = p
	}
	if len(pins) == 0 {
		return nil
	}
	if err := Infer(ctx, g); err != nil { // as a view of what is pinned
		return exit.Wrongf("--pin %s: %w", strings.Join(pins, ", "), err)
	}
	return nil
}
