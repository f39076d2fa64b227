package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"slices"
	"testing"
)

// perfetto is what Perfetto's trace processor makes of a trace in Chrome's format.
type perfetto struct {
	process  int
	threads  map[int]string // names by thread
	order    map[int]int    // sort indices by thread
	slices   []perfettoSlice
	counters map[string][]float64
}

// perfettoSlice is a slice, with the category of the one around it.
type perfettoSlice struct {
	name, cat, around string
	track             int
	from, to          int64 // ns
}

type perfettoEvent struct {
	Name, Cat, Ph string
	TS, Dur       *json.Number
	PID, TID      int
	Args          json.RawMessage
}

// openInPerfetto reads a trace by the rules of Perfetto's importer (src/trace_processor/importers/json, common/
// slice_tracker.cc), and fails where that would count an error, drop something or move it to another track:
//   - displayTimeUnit was taken for the unit of times; nothing may follow the last brace;
//   - an event without a thread, or with thread 0, is of the thread with the process's number, which is the main one;
//   - times are microseconds, of which whole nanoseconds are made, by dropping what is behind or by rounding;
//   - events of a track are taken in the order of their beginnings, then of the file, and must nest;
//   - counters are the numbers in args, each a track; metadata are names and sort indices.
func openInPerfetto(t *testing.T, path string) *perfetto {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(text, []byte("displayTimeUnit")) || !bytes.HasSuffix(text, []byte("}")) {
		t.Fatalf("%s: begins with %.40q, ends with %q", path, text, text[len(text)-4:])
	}
	var doc struct{ TraceEvents []perfettoEvent }
	if err := json.Unmarshal(text, &doc); err != nil {
		t.Fatal(err)
	}
	p := &perfetto{threads: map[int]string{}, order: map[int]int{}, counters: map[string][]float64{}}
	for i, e := range doc.TraceEvents {
		if e.TID == 0 {
			e.TID = e.PID
		}
		if p.process = e.PID; e.PID == 0 || e.PID != doc.TraceEvents[0].PID {
			t.Fatalf("%s: process %d", path, e.PID)
		}
		if err := p.take(e); err != nil {
			t.Fatalf("%s: event %d, %+v: %v", path, i, e, err)
		}
	}
	if err := p.nest(); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return p
}

func (p *perfetto) take(e perfettoEvent) error {
	switch e.Ph {
	case "M":
		return p.takeMetadata(e)
	case "C":
		var values map[string]float64
		if err := json.Unmarshal(e.Args, &values); err != nil || len(values) == 0 || e.TS == nil {
			return fmt.Errorf("no numbers, or no time: %v", err)
		}
		for name, v := range values {
			p.counters[e.Name+" "+name] = append(p.counters[e.Name+" "+name], v)
		}
		return nil
	case "X":
		from, err := wholeNanoseconds(e.TS)
		if err != nil {
			return err
		}
		dur, err := wholeNanoseconds(e.Dur)
		p.slices = append(p.slices, perfettoSlice{e.Name, e.Cat, "", e.TID, from, from + dur})
		return err
	}
	return fmt.Errorf("not a phase that the writer has a use for")
}

func (p *perfetto) takeMetadata(e perfettoEvent) error {
	var args struct {
		Name  string
		Index *int `json:"sort_index"`
	}
	if err := json.Unmarshal(e.Args, &args); err != nil {
		return err
	}
	switch {
	case e.Name == "process_name" && args.Name != "":
	case e.Name == "thread_name" && args.Name != "" && p.threads[e.TID] == "":
		p.threads[e.TID] = args.Name
	case e.Name == "thread_sort_index" && args.Index != nil:
		p.order[e.TID] = *args.Index
	default:
		return fmt.Errorf("metadata without a value, or for a thread that has a name already")
	}
	return nil
}

// wholeNanoseconds are a time's, if all versions of the importer agree on them.
func wholeNanoseconds(us *json.Number) (int64, error) {
	if us == nil {
		return 0, fmt.Errorf("a time is missing")
	}
	v, err := us.Float64()
	if dropped := int64(v * 1000); err != nil || v < 0 || dropped != int64(math.Round(v*1000)) {
		return 0, fmt.Errorf("the time %v is %d ns or %v: %v", us, dropped, math.Round(v*1000), err)
	}
	return int64(v * 1000), nil
}

// nest finds for each slice the one around it.
func (p *perfetto) nest() error {
	slices.SortStableFunc(p.slices, func(a, b perfettoSlice) int { return int(a.from - b.from) })
	open := map[int][]*perfettoSlice{}
	for i := range p.slices {
		s := &p.slices[i]
		stack := open[s.track]
		for len(stack) > 0 && stack[len(stack)-1].to <= s.from {
			stack = stack[:len(stack)-1]
		}
		if len(stack) > 0 {
			outer := stack[len(stack)-1]
			if s.around = outer.cat; outer.to < s.to {
				return fmt.Errorf("%+v overlaps %+v", *s, *outer)
			}
		}
		open[s.track] = append(stack, s)
		// Runs hold steps, steps hold chunks, and runs within a run are in that, a step or a chunk. A slice without
		// length at the end of the one around it comes behind that.
		within := map[string][]string{"run": {"", "run", "step", "chunk"}, "step": {"", "run"}, "chunk": {"step"}}[s.cat]
		if !slices.Contains(within, s.around) && s.from < s.to {
			return fmt.Errorf("%+v is in a %s", *s, s.around)
		}
	}
	return nil
}
