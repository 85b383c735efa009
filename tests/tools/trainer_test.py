#!/usr/bin/env python3
"""Schedules of Hugging Face's Trainer that follow evaluations, through the program."""

import json

from cli_testing import CliTest, main


class TrainerTest(CliTest):
    def test_a_rate_that_follows_evaluations_goes_on_where_it_was(self):
        # No evaluation is so much better than the one before.
        kwargs = json.dumps({"patience": 1, "factor": 0.5, "threshold": 0.9})
        flags = {"lr_scheduler_type": "reduce_lr_on_plateau", "schedule_args": kwargs, "steps": 8, "eval_every": 1,
                 "eval_data": self.data, "lr": "1e-3"}
        self.assert_run(self.train(**flags), 0, "the learning rate is")
        whole = self.outcome()
        self.assertGreater(len({row["lr"] for row in self.rows()}), 3)
        self.begin_afresh()
        self.assert_run(self.train(**{**flags, "steps": 4}), 0)
        self.assert_run(self.train(**flags, resume=True), 0)
        self.assertEqual(self.outcome(), whole)
        self.assert_run(self.train(**{**flags, "steps": 10, "eval_every": 3}, resume=True), 2, "eval-every")


if __name__ == "__main__":
    main()
