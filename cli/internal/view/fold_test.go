package view

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/graphrun/graphrun/cli/internal/term"
)

// somePicture draws a picture whose boxes have scopes at random.
func somePicture(t *rapid.T) *picture {
	n := rapid.IntRange(0, 90).Draw(t, "boxes")
	p := &picture{}
	scopes := [][]string{nil, {"a"}, {"a", "b"}, {"a", "c"}, {"d"}, {"d", "b", "e"}}
	scope, regular := scopes[0], rapid.Bool().Draw(t, "regular")
	for i := range n {
		if rapid.IntRange(0, 4).Draw(t, "change") == 0 {
			scope = rapid.SampledFrom(scopes).Draw(t, "scope")
		}
		b := pictureBox{kind: stepBox, name: fmt.Sprintf("n%d", i), head: "op", layout: -1, scope: scope,
			signature: fmt.Sprint(i % 5), details: []detail{{"step", "n"}}}
		if !regular {
			b.signature = fmt.Sprint(rapid.IntRange(0, 2).Draw(t, "code"))
		}
		switch {
		case i == 0:
			b.kind, b.scope = inputBox, nil
		case i == n-1:
			b.kind, b.scope = outputBox, nil
		}
		p.boxes = append(p.boxes, b)
		net := pictureValue{from: i, layout: -1}
		if i+2 < n {
			net.to = rapid.SliceOfNDistinct(rapid.IntRange(i+1, min(n-1, i+9)), 0, 3, rapid.ID[int]).Draw(t, "to")
		}
		if len(net.to) > 0 {
			p.values = append(p.values, net)
		}
	}
	return p
}

// TestFolding checks that groups partition the boxes, and that lines reach all ends for any choice of open groups.
func TestFolding(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := somePicture(t)
		root := p.fold()
		checkRanges(t, root)
		toggle(t, root)
		s, err := p.newScene(root, rapid.Bool().Draw(t, "horizontal"), rapid.Bool().Draw(t, "all"))
		require.NoError(t, err, "a folded group makes no cycle")
		for v, n := range p.values {
			for _, to := range n.to {
				checkLine(t, s, root, v, n.from, to)
			}
		}
		assert.NotEmpty(t, s.svg())
		assert.NotEmpty(t, p.dot(root, false))
	})
}

func checkRanges(t *rapid.T, g *item) {
	at := g.from
	for _, x := range g.items {
		require.Equal(t, at, x.from, "items are consecutive")
		if x.box < 0 {
			require.GreaterOrEqual(t, len(x.items), 2, x.label)
			checkRanges(t, x)
		} else {
			require.Equal(t, x.from+1, x.upTo)
		}
		if x.repeats > 0 {
			require.NotContains(t, []int{0, 1}, x.repeats)
		}
		at = x.upTo
	}
	require.Equal(t, g.upTo, at)
}

func toggle(t *rapid.T, g *item) {
	for _, x := range g.items {
		if x.box < 0 {
			x.isOpen = rapid.Bool().Draw(t, "open")
			toggle(t, x)
		}
	}
}

// checkLine follows a value from its box, out of the groups that the reader is not in, to the reader.
func checkLine(t *rapid.T, s *scene, g *item, value, from, to int) {
	for s.levels[g] != nil {
		l, holder := s.levels[g], s.itemOfBox(g)
		a, b := holder[from], holder[to]
		if a == b {
			g = g.items[a]
			continue
		}
		at := slices.IndexFunc(l.lines, func(n line) bool { return slices.Contains(n.values, value) })
		require.GreaterOrEqual(t, at, 0)
		assert.Equal(t, a, l.lines[at].from)
		assert.Contains(t, l.lines[at].to, b)
		for _, end := range []struct {
			item int
			out  bool
		}{{a, true}, {b, false}} {
			if inner := s.levels[g.items[end.item]]; inner != nil {
				assert.Contains(t, inner.ports, port{at, end.out})
			}
		}
		return
	}
}

// TestTandems compares the longest sequence of equal blocks with a search through all of them.
func TestTandems(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		codes := rapid.SliceOfN(rapid.Uint64Range(0, 2), 0, 24).Draw(t, "codes")
		list := tandems(codes, func(tandem) bool { return true })
		longest, at := 0, 0
		for _, x := range list {
			assert.GreaterOrEqual(t, x.from, at)
			at = x.upTo()
			assert.GreaterOrEqual(t, x.count, 2)
			for i := x.from; i+x.period < at; i++ {
				assert.Equal(t, codes[i], codes[i+x.period])
			}
			longest = max(longest, x.period*x.count)
		}
		want := 0
		for from := range codes {
			for period := 1; from+2*period <= len(codes); period++ {
				count := 1
				for from+(count+1)*period <= len(codes) &&
					slices.Equal(codes[from:from+period], codes[from+count*period:from+(count+1)*period]) {
					count++
				}
				if count > 1 {
					want = max(want, period*count)
				}
			}
		}
		assert.Equal(t, want, longest)
	})
}

func TestScopes(t *testing.T) {
	assert.Equal(t, []string{"layer1", "layer1.0"},
		scopeOf([]string{"/layer1/layer1.0/conv1/Conv_0", "/layer1/layer1.0/relu"}))
	assert.Equal(t, []string{"layer1", "0"}, scopeOf([]string{"layer1.0.conv"}))
	assert.Empty(t, scopeOf([]string{"/Add_1"}))
	assert.Empty(t, scopeOf([]string{"a/b", "c/b"}))
}

// TestDistinct checks that shortened names differ, and that they keep the part that differs.
func TestDistinct(t *testing.T) {
	long := []string{"/backbone/stage2/block1/branch_left/conv_output_0/extra",
		"/backbone/stage2/block2/branch_left/conv_output_0/extra"}
	assert.Equal(t, []string{"…e2/block1/branch_…", "…e2/block2/branch_…"}, distinct(long, 19))
	assert.Equal(t, []string{"short", "short"}, distinct([]string{"short", "short"}, 19))
	assert.Equal(t, []string{"rsda…79t", "…daa379…", "rsda…78t"},
		distinct([]string{"rsdaa579t", "rsdaa379t", "rsdaa578t"}, 8))
	rapid.Check(t, func(t *rapid.T) {
		prefix := rapid.StringMatching(`[a-z/]{0,60}`).Draw(t, "prefix")
		suffix := rapid.StringMatching(`[a-z/]{0,60}`).Draw(t, "suffix")
		parts := rapid.SliceOfNDistinct(rapid.StringMatching(`[0-9]{3}`), 2, 6, rapid.ID[string]).Draw(t, "parts")
		names := make([]string, len(parts))
		for i, part := range parts {
			names[i] = prefix + part + suffix
		}
		width := rapid.IntRange(8, 50).Draw(t, "width")
		cut := distinct(names, width)
		for i, name := range cut {
			assert.LessOrEqual(t, term.Width(name), width)
			assert.NotContains(t, cut[:i], name)
		}
	})
}
