package term

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"sync"
	"unicode/utf8"

	"github.com/graphrun/graphrun/internal/printable"
)

// Output is the standard output or standard error of a command. Everything that the command prints passes through it,
// names from files and messages of errors included, and must not control the terminal. Output escapes characters as
// [printable.Append] does, except line breaks, tabs, and the styles of [Display.Paint]. Inside the strings of
// JSON, the escape sequences mean the escaped characters. An Output may be used by several goroutines.
type Output struct {
	mu  sync.Mutex
	dst io.Writer
	// rest is the end of what was written, if it may be the beginning of a character or of a style.
	rest   []byte
	buffer []byte // reused
}

// NewOutput returns an Output that writes to dst.
func NewOutput(dst io.Writer) *Output { return &Output{dst: dst} }

// styleMark begins the styles of Display.Paint in the text for an Output. Each process draws it, because text from
// files must not contain it.
var styleMark = []byte(fmt.Sprintf("\x1b%016x", rand.Uint64()))

// Write writes text.
func (o *Output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	text := p
	if len(o.rest) > 0 {
		text = append(o.rest, text...)
	}
	const isEnd = false
	return len(p), o.write(text, isEnd)
}

// End writes the end of the last text if it is incomplete.
func (o *Output) End() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	const isEnd = true
	return o.write(o.rest, isEnd)
}

func (o *Output) write(text []byte, isEnd bool) error {
	out := o.buffer[:0]
	for len(text) > 0 {
		plain := len(text)
		if i := bytes.IndexByte(text, styleMark[0]); i >= 0 {
			plain = i
		}
		if plain == 0 {
			mayContinue := bytes.HasPrefix(styleMark, text)
			if bytes.HasPrefix(text, styleMark) {
				style := text[len(styleMark):]
				end := bytes.IndexByte(style, 'm') + 1
				if end > 0 {
					out = append(append(out, "\x1b["...), style[:end]...)
					text = style[end:]
					continue
				}
				mayContinue = true
			}
			if mayContinue && !isEnd {
				break
			}
			plain = 1
		}
		part := text[:plain]
		if !isEnd && plain == len(text) {
			part = part[:len(part)-incompleteRune(part)]
		}
		const keepLines = true
		out = printable.Append(out, part, keepLines)
		text = text[len(part):]
		if len(part) < plain {
			break
		}
	}
	o.rest, o.buffer = bytes.Clone(text), out
	if len(out) == 0 {
		return nil
	}
	_, err := o.dst.Write(out)
	return err
}

// incompleteRune returns the length of the beginning of a character at the end of text; 0 if there is none.
func incompleteRune(text []byte) int {
	for n := 1; n < min(utf8.UTFMax, len(text)+1); n++ {
		if end := text[len(text)-n:]; utf8.RuneStart(end[0]) {
			if utf8.FullRune(end) {
				return 0
			}
			return n
		}
	}
	return 0
}

// Unescaped returns the writer to which an Output writes, for a command that moves the cursor.
func Unescaped(w io.Writer) io.Writer {
	if o, ok := w.(*Output); ok {
		return o.dst
	}
	return w
}
