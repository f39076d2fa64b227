// Package sections prints the parts of reports on plans that several commands share.
package sections

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/graphrun/graphrun"
	"github.com/graphrun/graphrun/cli/internal/format"
	"github.com/graphrun/graphrun/cli/internal/term"
	"github.com/graphrun/graphrun/report"
)

// WriteCopies prints copies and why there are.
func WriteCopies(w io.Writer, show term.Display, title string, copies []report.Copy) {
	term.WriteList(w, show, title, copies, []term.Column{term.NameCol("value"), term.ListCol("from"), term.ListCol("to"),
		term.WholeCol("bytes"),
		term.WholeCol("cost"), term.ProseCol("why")}, func(c report.Copy) []any {
		return []any{c.Value, format.Ints(c.From), format.Ints(c.To), c.Bytes, format.Nanoseconds(c.CostNS), c.Why}
	})
}

// mostApart is how many pairs are printed of those that stayed apart for one reason.
const mostApart = 5

// WriteApart prints the pairs of nodes that stayed apart, together those for which there is one reason: of many some,
// and how many there are.
func WriteApart(w io.Writer, show term.Display, list []report.Apart) {
	seen, folded := map[string]int{}, []report.Apart{}
	for _, a := range list {
		if seen[a.Why]++; seen[a.Why] <= mostApart {
			folded = append(folded, a)
		}
	}
	slices.SortStableFunc(folded, func(a, b report.Apart) int { return cmp.Compare(seen[a.Why], seen[b.Why]) })
	for i := range folded {
		why := folded[i].Why
		if last := i+1 == len(folded) || folded[i+1].Why != why; last && seen[why] > mostApart {
			folded[i].Why = fmt.Sprintf("%s; so are %d more", why, seen[why]-mostApart)
		}
	}
	term.WriteList(w, show, "Apart", folded, []term.Column{term.NameCol("node"), term.NameCol("reader"),
		term.ProseCol("why")},
		func(a report.Apart) []any { return []any{a.Node, a.Reader, a.Why} })
}

// WriteBound tells how near the cost is to the least.
func WriteBound(w io.Writer, r *report.Plan) {
	if r.LowerBoundNS == nil {
		return
	}
	if r.Optimal {
		fmt.Fprint(w, "no plan costs less: that is proved")
	} else {
		fmt.Fprintf(w, "no plan costs less than %s: that is proved, and a gap of %s is left (%.2g%%)",
			format.Nanoseconds(*r.LowerBoundNS), format.Nanoseconds(r.CostNS+r.SavedNS-*r.LowerBoundNS),
			100*((r.CostNS+r.SavedNS)/max(*r.LowerBoundNS, 1)-1))
	}
	if r.SavedNS != 0 {
		fmt.Fprintf(w, ", but for %s that are saved besides where values are written within others",
			format.Nanoseconds(r.SavedNS))
	}
	fmt.Fprintln(w, "; peak memory and steps that overlap are not in the cost")
}

// PricedBy tells which profile a plan was priced by, in words.
func PricedBy(p report.Profile) string {
	digest := p.Digest
	if len(digest) > ShortDigest {
		digest = digest[:ShortDigest]
	}
	if p.Default {
		return fmt.Sprintf("the default profile for %s (%s)", p.Instructions, digest)
	}
	when, _, _ := strings.Cut(p.Measured, "T")
	return fmt.Sprintf("a profile for %s, measured %s (%s)", p.Instructions, cmp.Or(when, "some day"), digest)
}

// ShortDigest is how much of a digest is printed for readers.
const ShortDigest = 12

// WriteMemory prints what a run needs, and whether it could run here.
func WriteMemory(w io.Writer, show term.Display, n graphrun.Need) {
	fmt.Fprintln(w, "\n"+show.Paint(term.Strong, "Memory of a run"))
	t := term.NewTable(term.NameCol("for"), term.WholeCol("bytes"))
	for _, c := range n.Categories() {
		t.Add(c.Name, format.Bytes(c.Bytes))
	}
	t.Add("all", format.Bytes(n.Total()))
	t.Write(w, show)
	var short *graphrun.MemoryError
	if errors.As(n.Check(0, n.Held()), &short) {
		fmt.Fprintf(w, "That is more than it may have here: %s is %s, of which %s is left.\n",
			short.From, format.Bytes(short.Limit), format.Bytes(short.Left))
	}
}

// WriteSegments prints the segments of a graph that has some.
func WriteSegments(w io.Writer, show term.Display, segments []report.Segment) {
	if len(segments) == 0 {
		return
	}
	fmt.Fprintln(w, "\n"+show.Paint(term.Strong, "Segments"))
	fmt.Fprintln(w, "each is planned for every set of layouts and sizes that comes: "+
		"no hint is known for what follows from data")
	t := term.NewTable(term.WholeCol("segment"), term.PhraseCol("nodes", 20), term.WholeCol("planned"),
		term.WholeCol("after"),
		term.PhraseCol("waits for", 16), term.PhraseCol("gives", 16))
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
		t.Add(s.Segment, SomeOf(s.Nodes), planned, format.Ints(s.After), SomeOf(waits), SomeOf(gives))
	}
	t.Write(w, show)
}

// SomeOf names the first things of a list.
func SomeOf(list []string) string {
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
