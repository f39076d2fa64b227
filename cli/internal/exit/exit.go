// Package exit has errors that carry the exit code of the process, and the signals that end a command.
package exit

import (
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/files"
	"github.com/graphrun/graphrun/tensor"
)

// The exit codes.
const (
	CodeDone   = 0
	CodeFailed = 1
	CodeWrong  = 2
)

// Error carries an exit code. A nil err has been reported already.
type Error struct {
	Code int
	Err  error
}

// Error returns the cause's message.
func (e *Error) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("exit code %d", e.Code)
	}
	return e.Err.Error()
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Wrong marks an error as the caller's or the file's.
func Wrong(err error) error { return &Error{CodeWrong, err} }

// Wrongf is wrong for a message made here.
func Wrongf(format string, args ...any) error { return Wrong(fmt.Errorf(format, args...)) }

// Failed marks an error as a failure of what was asked for.
func Failed(err error) error { return &Error{CodeFailed, err} }

// Coded makes errors without a code of their own failures.
func Coded(f func(cmd *cobra.Command, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) (err error) {
		defer func() {
			var short *tensor.MemoryError
			if errors.As(err, &short) {
				err = Failed(err) // wherever it comes from, neither call nor file is wrong
			}
		}()
		defer tensor.CatchMemory(&err)
		err = f(cmd, args)
		var e *Error
		if err == nil || errors.As(err, &e) {
			return err
		}
		return Failed(err)
	}
}

// Plain is an error in words for those who do not read Go: the system's refusal of a file
// without the name of the call, a number that is none without the name of its parser.
func Plain(err error) string {
	text := err.Error()
	var file *fs.PathError
	if errors.As(err, &file) {
		text = strings.ReplaceAll(text, file.Error(), files.OfFile("", file).Error())
	}
	var number *strconv.NumError
	if errors.As(err, &number) {
		text = strings.ReplaceAll(text, number.Error(), fmt.Sprintf("%q is not a number that fits here", number.Num))
	}
	return text
}

// InFile puts the file's name before an error that has no place in it.
func InFile(path string, err error) error {
	var one *graph.Error
	if errors.As(err, &one) && one.File != "" {
		return err
	}
	return fmt.Errorf("%s: %w", path, err)
}
