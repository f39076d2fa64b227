package main

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/graphrun/graphrun"
	"github.com/graphrun/graphrun/graph"
)

// planLimits are what a plan may not exceed.
type planLimits struct {
	copies  int
	counted bool   // whether copies are bounded
	memory  string // as written, empty for none
	bytes   int
}

func (l *planLimits) add(cmd *cobra.Command) {
	cmd.Flags().IntVar(&l.copies, "max-copies", 0, "fail where more than `N` copies are inserted, but for those of "+
		"constants, and list them with their reasons")
	cmd.Flags().StringVar(&l.memory, "max-memory", "", "reject plans of which a run needs more than `BYTES`, such as "+
		"64MiB: the cheapest of another strategy that needs no more is taken instead")
}

func (l *planLimits) check(cmd *cobra.Command) (err error) {
	if l.counted = cmd.Flags().Changed("max-copies"); l.copies < 0 {
		return wrongf("--max-copies %d: want 0 or more", l.copies)
	}
	if l.memory == "" {
		return nil
	}
	if l.bytes, err = parseBytes(l.memory); err != nil {
		return wrongf("--max-memory %s: %w", l.memory, err)
	}
	return nil
}

// bytesOf are the units of sizes, in bytes.
var bytesOf = map[string]float64{"": 1, "B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40,
	"kB": 1e3, "KB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12}

// parseBytes reads a size: 64MiB, 1.5 GB, 4096.
func parseBytes(text string) (int, error) {
	at := strings.LastIndexAny(text, "0123456789.") + 1
	unit, known := bytesOf[strings.TrimSpace(text[at:])]
	n, err := strconv.ParseFloat(text[:at], 64)
	if err != nil || !known || n < 0 || n*unit >= math.MaxInt {
		return 0, errors.New("want a size such as 64MiB, 1.5GB or 4096")
	}
	return int(n * unit), nil
}

// bytesNeeded is what a run on one worker needs in all: --max-memory counts it, since plans do not depend on threads.
func bytesNeeded(r *graphrun.Report) int {
	return r.PeakBytes + r.Memory.Inputs + r.Memory.Constants + r.Memory.Packed
}

// keep returns the program if it needs no more than --max-memory. Else it returns the cheapest of the other strategies
// that does, with a report that lists those that were rejected.
func (l *planLimits) keep(p *graphrun.Program, g *graph.Graph, o graphrun.Options) (*graphrun.Program, *graphrun.Report,
	error) {
	wanted := p.Report()
	if l.memory == "" || bytesNeeded(wanted) <= l.bytes {
		return p, wanted, nil
	}
	var best *graphrun.Program
	var report *graphrun.Report
	rejected := []graphrun.RejectionReport{rejectionOf(wanted)}
	least := wanted
	for _, s := range graphrun.Strategies() {
		if s.Name() == wanted.Strategy {
			continue
		}
		o.Strategy, o.Dump = s, nil
		other, err := graphrun.Compile(g, o)
		if err != nil {
			return nil, nil, err
		}
		r := other.Report()
		switch {
		case bytesNeeded(r) > l.bytes:
			rejected = append(rejected, rejectionOf(r))
			if bytesNeeded(r) < bytesNeeded(least) {
				least = r
			}
		case best == nil || r.CostNS < report.CostNS:
			best, report = other, r
		}
	}
	if best == nil {
		return nil, nil, l.refusal(rejected, least)
	}
	report.Rejected = rejected
	return best, report, nil
}

func rejectionOf(r *graphrun.Report) graphrun.RejectionReport {
	return graphrun.RejectionReport{Strategy: r.Strategy, Bytes: bytesNeeded(r), CostNS: r.CostNS}
}

// refusal tells what stands in the way of all strategies, by the plan that needs least.
func (l *planLimits) refusal(rejected []graphrun.RejectionReport, least *graphrun.Report) error {
	var needs []string
	for _, r := range rejected {
		needs = append(needs, r.Strategy+" "+byteSize(r.Bytes))
	}
	m := least.Memory
	text := fmt.Sprintf("no strategy has a plan within --max-memory %s: a run needs %s; of what %s needs, "+
		"inputs take %s, constants %s, packed ones %s, all else %s", l.memory, strings.Join(needs, ", "), least.Strategy,
		byteSize(m.Inputs), byteSize(m.Constants), byteSize(m.Packed), byteSize(least.PeakBytes))
	for i, h := range m.Largest {
		if i == 0 {
			text += "\nThe largest values are"
		}
		text += fmt.Sprintf("\n  %s %q, %s", h.Kind, h.Name, byteSize(h.Bytes))
	}
	return errors.New(text)
}

// tell says which plans were rejected, and what that costs.
func (l *planLimits) tell(cmd *cobra.Command, r *graphrun.Report) {
	if len(r.Rejected) == 0 {
		return
	}
	wanted := r.Rejected[0]
	note(cmd, "a run of the plan of %s needs %s, more than --max-memory %s; %s needs %s, for an estimated cost of %s "+
		"instead of %s: %s", wanted.Strategy, byteSize(wanted.Bytes), l.memory, r.Strategy, byteSize(bytesNeeded(r)),
		nanoseconds(r.CostNS), nanoseconds(wanted.CostNS), difference(wanted.CostNS, r.CostNS, nanoseconds))
}

// countCopies fails where there are more copies than --max-copies, of values that are no constants, and lists them.
func (l *planLimits) countCopies(g *graph.Graph, copies []graphrun.CopyReport) error {
	if !l.counted {
		return nil
	}
	text, n := "", 0
	for _, c := range copies {
		if v := g.Value(c.Value); v != nil && v.Const != nil {
			continue
		}
		n++
		text += fmt.Sprintf("\n  %s from %s to %s, %s, %s: %s", printable(c.Value), ints(c.From), ints(c.To),
			byteSize(c.Bytes), nanoseconds(c.CostNS), printable(c.Why))
	}
	if n <= l.copies {
		return nil
	}
	return fmt.Errorf("%s inserted, --max-copies allows %d:%s", countIrregular(n, "copy is", "copies are"), l.copies, text)
}
