//go:build linux || darwin

package jittest

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// reduceRounds is how often the remainder of a vector is reduced at most: a quotient of float64 has up to 2,098 bits,
// of which a step takes 51 at least.
const reduceRounds = 42

var (
	labelled = regexp.MustCompile(`^(L\d+):$`)
	jump     = regexp.MustCompile(`^\tJ\w+\t(L\d+)$`)
	counted  = regexp.MustCompile(`^\tMOVL\t\$(\d+), AX$`)
	advances = regexp.MustCompile(`^\tADDQ\t\$(\d+), CX$`)
)

// turn is a loop over the elements of a row: what one turn executes, and how many elements it takes.
type turn struct{ cost, elements int }

// Executed returns how many instructions a call of the listed loop executes at most for rows of n0 elements each. It
// counts in the text: the turns of a loop over elements follow from what it adds to CX, rows are the loop around those,
// and a loop within them copies elements, which it counts down, or reduces remainders.
func Executed(listing string, n0, rows int) (int, error) {
	code, _, _ := strings.Cut(listing, "DATA ")
	lines := strings.Split(strings.TrimSuffix(code, "\n"), "\n")
	labels := map[string]int{}
	once := 0 // instructions in no loop over elements
	var turns []turn
	cost := make([]int, len(lines)) // of a line, in one turn of the loop around it
	for k, line := range lines {
		if m := labelled.FindStringSubmatch(line); m != nil {
			labels[m[1]] = k
			continue
		}
		cost[k] = 1
		m := jump.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		begin, back := labels[m[1]]
		if !back {
			continue
		}
		body, step := 0, 0
		for at := begin; at <= k; at++ {
			body += cost[at]
			if a := advances.FindStringSubmatch(lines[at]); a != nil && cost[at] > 0 {
				step, _ = strconv.Atoi(a[1])
			}
		}
		switch {
		case step > 0:
			turns = append(turns, turn{body, step})
			clear(cost[begin : k+1])
		case len(turns) == 0 || !strings.Contains(strings.Join(lines[begin:k], "\n"), "CX\n"):
			clear(cost[begin : k+1])
			cost[k] = body * rounds(lines[:begin], lines[k-1])
		}
	}
	if len(turns) == 0 {
		return 0, fmt.Errorf("no loop over elements in\n%s", code)
	}
	for _, c := range cost {
		once += c
	}
	slices.SortFunc(turns, func(a, b turn) int { return b.elements - a.elements })
	row, left := once, n0
	for k, t := range turns {
		n := left / t.elements
		if left -= n * t.elements; k == len(turns)-1 && left > 0 {
			n++
		}
		row += n * t.cost
	}
	return row * rows, nil
}

// rounds returns how often a loop within a turn goes round at most: as often as AX says that it counts down, twice for
// elements that are copied by halves, or until remainders are reduced.
func rounds(before []string, last string) int {
	if last != "\tDECL\tAX" {
		return reduceRounds
	}
	n, times := 0, 1
	for k := len(before) - 1; n == 0; k-- {
		if m := counted.FindStringSubmatch(before[k]); m != nil {
			n, _ = strconv.Atoi(m[1])
		} else if before[k] == "\tADDQ\tAX, AX" {
			times = 2
		}
	}
	return n * times
}
