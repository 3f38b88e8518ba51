package main

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
)

const (
	forever     = time.Duration(math.MaxInt64)
	killed      = 128 + 9
	ignoresTerm = -1
)

// behaviour is what a container does in its life, as its arguments tell.
type behaviour struct {
	run       time.Duration
	exit      int32
	term      int32 // exit code on SIGTERM, or ignoresTerm
	termAfter time.Duration
}

// behaviourOf reads the words run=, exit=, term= and term-after= from a
// container's args or, if it has none, from its command; other words are not
// ours. Exit and park images do what they do, whatever the arguments.
func (options *options) behaviourOf(container *corev1.Container) (behaviour, error) {
	switch {
	case options.isExitImage(container.Image):
		return behaviour{run: options.exitRuns, term: 143}, nil
	case lastElement(container.Image) == "park":
		return behaviour{run: forever, term: 143}, nil
	}
	words := container.Args
	if len(words) == 0 {
		words = container.Command
	}
	result := behaviour{run: forever, term: 143}
	for _, word := range strings.Fields(strings.Join(words, " ")) {
		key, value, _ := strings.Cut(word, "=")
		if err := result.set(key, value); err != nil {
			return result, fmt.Errorf("container %s: %q: %w", container.Name, word, err)
		}
	}
	return result, nil
}

func (b *behaviour) set(key, value string) (err error) {
	switch {
	case key == "run" && value == "forever":
		b.run = forever
	case key == "run":
		b.run, err = time.ParseDuration(value)
	case key == "exit":
		b.exit, err = exitCode(value)
	case key == "term" && value == "ignore":
		b.term = ignoresTerm
	case key == "term":
		b.term, err = exitCode(value)
	case key == "term-after":
		b.termAfter, err = time.ParseDuration(value)
	}
	return err
}

func exitCode(text string) (int32, error) {
	code, err := strconv.ParseUint(text, 10, 8)
	return int32(code), err
}

// play lives one life and returns its exit code. What comes from stop is the
// grace period of a SIGTERM.
func (b behaviour) play(stop <-chan time.Duration) int32 {
	done := time.NewTimer(b.run)
	defer done.Stop()
	var grace time.Duration
	select {
	case <-done.C:
		return b.exit
	case grace = <-stop:
	}
	code, after := b.term, b.termAfter
	if code == ignoresTerm || after > grace {
		code, after = killed, grace
	}
	select {
	case <-done.C:
		return b.exit
	case <-time.After(after):
		return code
	}
}
