package term

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/graphrun/graphrun/cli/internal/format"
)

func TestCut(t *testing.T) {
	for _, c := range []struct {
		cut        func(string, int) string
		text       string
		width      int
		want, what string
	}{
		{CutMiddle, "layer1.0.conv2.weight", 21, "layer1.0.conv2.weight", "fits"},
		{CutMiddle, "layer1.0.conv2.weight", 11, "layer…eight", "odd room"},
		{CutMiddle, "layer1.0.conv2.weight", 10, "layer…ight", "even room"},
		{CutMiddle, "层一卷积核重量", 14, "层一卷积核重量", "wide letters that fit"},
		{CutMiddle, "层一卷积核重量", 9, "层一…重量", "wide letters"},
		{CutMiddle, "e\u0301e\u0301e\u0301e\u0301e\u0301e\u0301", 3, "e\u0301…e\u0301", "accents"},
		{CutEnd, "contiguous non_overlapping", 12, "contiguous…", "no blank before the mark"},
		{CutEnd, "层一卷积核", 6, "层一…", "a wide letter does not go half"},
		{cutList, "[2,8,16,16]", 11, "[2,8,16,16]", "fits"},
		{cutList, "[2048,256,16,1]", 14, "[2048,256,…,1]", "the longest that fits"},
		{cutList, "[2048,256,16,1]", 10, "[2048,…,1]", "both ends"},
		{cutList, "[2048,256,16,1]", 8, "[2048,…]", "the start"},
		{cutList, "strides [2048,256,16,1]", 18, "strides [2048,…,1]", "after a word"},
		{cutList, "[4] by [8,9] [10,11]", 10, "[4] by [8…", "no list"},
		{CutFlags, "contiguous non_overlapping_and_dense", 16, "contiguous dense", "a shorter word"},
	} {
		got := c.cut(c.text, c.width)
		if got != c.want {
			t.Errorf("%s: got %q, want %q", c.what, got, c.want)
		}
		if Width(got) > c.width {
			t.Errorf("%s: %q takes %d columns of %d", c.what, got, Width(got), c.width)
		}
	}
}

// anyTable is a table of all sorts of columns.
func anyTable(r *rand.Rand) *Table {
	sorts := []Column{NameCol("name"), UntruncatedCol("dtype"), ListCol("shape"), UntruncatedCol("offset").OmitIfAll("0"),
		PhraseCol("flags", 10),
		NameCol("alias of"), UntruncatedCol("buffer").OmitIfNarrow(), ProseCol("why")}
	t := NewTable(sorts...)
	word := func(most int) string {
		letters := []rune("abcdefgh._0123层é")
		w := make([]rune, r.IntN(most))
		for i := range w {
			w[i] = letters[r.IntN(len(letters))]
		}
		return string(w)
	}
	for range 1 + r.IntN(5) {
		t.Add(word(40), "float32", format.Ints(r.Perm(r.IntN(20))), 0, word(12)+" "+word(30), word(20), r.IntN(1000),
			strings.Repeat(word(9)+" ", r.IntN(12)))
	}
	return t
}

func TestTableFits(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		table := anyTable(r)
		for _, width := range []int{1, 20, 40, 60, 80, 100, 140} {
			var b bytes.Buffer
			table.Write(&b, Display{width: width})
			if !utf8.Valid(b.Bytes()) {
				t.Fatalf("letters are cut in pieces:\n%q", b.String())
			}
			for line := range strings.Lines(b.String()) {
				if n := Width(strings.TrimSuffix(line, "\n")); n > width {
					t.Fatalf("%d columns of %d in\n%s", n, width, b.String())
				}
			}
		}
		var b bytes.Buffer
		table.Write(&b, Display{})
		for _, row := range table.Rows {
			for _, cell := range row {
				if !strings.Contains(b.String(), strings.TrimRight(cell, " ")) {
					t.Fatalf("without a limit %q is cut in\n%s", cell, b.String())
				}
			}
		}
	}
}

// TestTableGives holds what gives way first to what is worth the least.
func TestTableGives(t *testing.T) {
	table := NewTable(NameCol("name"), UntruncatedCol("dtype"), ListCol("shape"), UntruncatedCol("offset").OmitIfAll("0"),
		PhraseCol("flags", 10),
		UntruncatedCol("buffer").OmitIfNarrow(), NameCol("alias of"))
	table.Add("features.denseblock1.weight", "float32", "[2,8,16,16]", 0, "channels_last non_overlapping_and_dense", 17,
		"")
	for width, want := range map[int]string{
		200: "features.denseblock1.weight  float32  [2,8,16,16]  0       channels_last non_overlapping_and_dense  17",
		88:  "features.denseblock1.weight  float32  [2,8,16,16]  channels_last non_overlappin…  17",
		72:  "features.denseblock1.weight  float32  [2,8,16,16]  channels_las…  17",
		64:  "features.denseblock1.weight  float32  [2,8,16,16]  channels_las…",
		54:  "features.d…k1.weight  float32  [2,8,16,16]  channels_…",
		44:  "featu…eight  float32  [2,8,…,16]  channels_…",
	} {
		var b bytes.Buffer
		table.Write(&b, Display{width: width})
		_, line, _ := strings.Cut(strings.TrimSpace(b.String()), "\n")
		if line != want {
			t.Errorf("%d columns:\n%s\nwant\n%s", width, line, want)
		}
	}
}

// TestTableWithoutRows checks that a narrow terminal shows the headings of a table without rows.
func TestTableWithoutRows(t *testing.T) {
	var b bytes.Buffer
	NewTable(NameCol("node"), UntruncatedCol("bytes")).Write(&b, Display{width: 8})
	if want := "node  b…\n"; b.String() != want {
		t.Errorf("got %q, want %q", b.String(), want)
	}
}

func TestTableProse(t *testing.T) {
	table := NewTable(NameCol("node"), ProseCol("why"))
	table.Add("tidy", "its operand already has the layout asked for, with strides that are those of channels-last images")
	var b bytes.Buffer
	table.Write(&b, Display{width: 40})
	want := `node  why
tidy  its operand already has the layout
      asked for, with strides that are
      those of channels-last images
`
	if b.String() != want {
		t.Errorf("got\n%s\nwant\n%s", b.String(), want)
	}
}

// TestTableAligned counts columns as terminals do.
func TestTableAligned(t *testing.T) {
	table := NewTable(UntruncatedCol("a"), UntruncatedCol("b"))
	for _, name := range []string{"x", "层", "e\u0301", "long"} {
		table.Add(name, "|")
	}
	var b bytes.Buffer
	table.Write(&b, Display{})
	for line := range strings.Lines(b.String()) {
		head, _, ok := strings.Cut(line, "|")
		if ok && Width(head) != 6 {
			t.Errorf("%q ends at column %d", line, Width(head))
		}
	}
	var painted bytes.Buffer
	table.Write(NewOutput(&painted), Display{color: true})
	if want := fmt.Sprintf("\x1b[1ma     b\x1b[0m\n%s", b.String()[len("a     b\n"):]); painted.String() != want {
		t.Errorf("in colour got %q, want %q", painted.String(), want)
	}
}
