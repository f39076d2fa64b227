package cli

import (
	"fmt"
	"io"
	"strings"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/program"
	"github.com/graphrun/graphrun/report"
)

// refuseDynamic says of a graph whose shapes depend on data what cannot be done with it, and the first node
// that decides some.
func refuseDynamic(g *graph.Graph, what string) error {
	known := program.KnownOf(g)
	if known == nil {
		return nil
	}
	if n := known.Decides(); n != nil {
		return g.Fail(n, fmt.Errorf("shapes depend on data, its result's first: %s", what))
	}
	return fmt.Errorf("shapes depend on data: %s", what)
}

// writeSegments prints the segments of a graph that has some.
func writeSegments(w io.Writer, show display, segments []report.Segment) {
	if len(segments) == 0 {
		return
	}
	fmt.Fprintln(w, "\n"+show.paint(strong, "Segments"))
	fmt.Fprintln(w, "each is planned for every set of layouts and sizes that comes: "+
		"no hint is known for what follows from data")
	t := newTable(wholeCol("segment"), phraseCol("nodes", 20), wholeCol("planned"), wholeCol("after"),
		phraseCol("waits for", 16), phraseCol("gives", 16))
	for _, s := range segments {
		planned := "in a run"
		if s.Planned {
			planned = "here"
		} else if s.Decides {
			planned = "-"
		}
		waits := make([]string, 0, len(s.Inputs)+len(s.Awaits))
		for _, v := range s.Inputs {
			waits = append(waits, v.Name)
		}
		for _, name := range s.Awaits {
			waits = append(waits, name+" (attribute)")
		}
		gives := make([]string, len(s.Outputs))
		for i, v := range s.Outputs {
			gives[i] = fmt.Sprintf("%s %s%s", v.Name, dtypeText(v.DType), v.Shape.String())
		}
		t.add(s.Segment, someOf(s.Nodes), planned, ints(s.After), someOf(waits), someOf(gives))
	}
	t.write(w, show)
}

// someOf names the first things of a list.
func someOf(list []string) string {
	const most = 4
	if more := len(list) - most; more > 1 {
		return fmt.Sprintf("%s and %d more", strings.Join(list[:most], ", "), more)
	}
	return strings.Join(list, ", ")
}

// dtypeText names a dtype that may be unknown.
func dtypeText(d *string) string {
	if d == nil {
		return "?"
	}
	return *d
}
