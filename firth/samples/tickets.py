"""Support tickets of a shop that doesn't exist, each with what it is about and the names in it, written for the demo and the tests.

A name is marked in the text: {product: copper kettle}, {place: Umeå}, {person: Ms Okafor}.
"""

import re
from typing import NamedTuple

MARK = re.compile(r"\{(\w+): ([^}]+)\}")

MARKED = {
    "delivery": """
My {product: copper kettle} was meant to arrive on Tuesday and still has not come.
The courier left the {product: oak shelf} in the rain outside my door in {place: Umeå}.
Where is my parcel? The tracking page has shown {place: Rotterdam} for a week.
{person: Ms Okafor} signed for my {product: reading lamp}, but I have never met her.
The box with the {product: garden chair} was delivered to number 14 instead of 41.
You promised the {product: wool blanket} before the weekend; it is Monday now.
Nobody rang the bell in {place: Lyon}, and the parcel went back to the depot.
Can you send the {product: bread bin} to my office in {place: Aarhus} instead?
Half of the order arrived: the {product: cast-iron pan} is missing from the box.
The driver said there was no such street in {place: Galway}, which is odd, for I live there.
How long does it take to ship a {product: standing desk} to {place: Malmö}?
My neighbour {person: Tomas Lind} took in a parcel that was not for either of us.
The tracking number for the {product: coffee grinder} does not work.
It has been twelve days since you shipped the {product: rice cooker}.
Please hold my delivery until I am back from {place: Naples} on the ninth.
The {product: floor lamp} came with the wrong label and went to {place: Cork}.
I waited at home all day and the van never came.
""",
    "billing": """
I was charged twice for the {product: copper kettle}.
The invoice says 89 but the {product: oak shelf} cost 79 on your page.
Please send the receipt for the {product: reading lamp} to {person: Mr Haddad} in accounting.
My card was debited, yet the order still shows as unpaid.
Why was there a customs fee on a {product: wool blanket} sent within {place: Sweden}?
The discount code for the {product: garden chair} was not taken off the total.
I need an invoice with our VAT number for the {product: standing desk}.
You took the money for the {product: rice cooker} a month before shipping it.
There are two payments to you on my statement and only one order.
Can I pay for the {product: coffee grinder} in three instalments?
The refund for the {product: bread bin} is four euros short.
The bill is addressed to {person: Ms Okafor}, who left the company last year.
Your page charged me in dollars although I live in {place: Galway}.
My bank in {place: Lyon} asks what the charge of 12.50 is for.
Please change the billing address from {place: Malmö} to {place: Umeå}.
I paid for express shipping of the {product: floor lamp} and did not get it.
The gift card covered only part of the {product: cast-iron pan}; where did the rest go?
""",
    "return": """
I would like to send back the {product: reading lamp}; it is far too bright.
How do I return a {product: garden chair} without the original box?
The {product: wool blanket} is a lovely colour but scratches, so I want my money back.
Please exchange the {product: standing desk} for the narrow one.
The label you sent for returning the {product: coffee grinder} has expired.
I sent the {product: copper kettle} back from {place: Naples} two weeks ago; has it arrived?
Can {person: Tomas Lind} bring the parcel back to your shop in {place: Aarhus} for me?
I ordered the {product: oak shelf} in the wrong size and have not opened it.
Is it too late to return a gift that I got in December?
Your form asks for a reason: I simply changed my mind about the {product: rice cooker}.
The return desk in {place: Rotterdam} would not take the {product: floor lamp}.
I want to give back the second {product: bread bin}; one is enough.
Who pays the postage if I send the {product: cast-iron pan} back from {place: Cork}?
May I swap the {product: wool blanket} for a green one?
I returned everything on the list and kept only the lamp.
Please cancel the order and take the {product: standing desk} back.
""",
    "defect": """
The {product: copper kettle} leaks at the spout every time I pour.
One leg of the {product: garden chair} snapped on the first evening.
The {product: reading lamp} flickers and smells of burning.
The {product: coffee grinder} stopped in the middle of the beans and will not start.
There is a crack right through the {product: oak shelf}.
The {product: rice cooker} switches itself off after two minutes.
The handle of the {product: cast-iron pan} was loose when I unpacked it.
The drawer of the {product: standing desk} will not close.
{person: Mr Haddad} looked at the {product: floor lamp} and says the wiring is wrong.
The lid of the {product: bread bin} came off in my hand.
The {product: wool blanket} lost all its colour in the first wash.
Two screws for the {product: oak shelf} were bent and one was missing its head.
The motor of the {product: standing desk} makes a grinding noise.
After a week in {place: Umeå} the {product: garden chair} is covered in rust.
The glass of the {product: reading lamp} arrived in splinters.
The {product: copper kettle} whistles but never boils.
Steam comes out of the side of the {product: rice cooker}.
""",
    "praise": """
The {product: copper kettle} is the best thing in my kitchen, thank you!
{person: Ms Okafor} on the telephone was kind and solved it in a minute.
I have never had furniture that went together as easily as the {product: oak shelf}.
Just to say that the {product: wool blanket} is as warm as you promised.
Your shop in {place: Aarhus} is a pleasure to visit.
The {product: standing desk} has saved my back; I told everyone at work.
What a lovely surprise to find a handwritten card in the box.
{person: Tomas Lind} carried the {product: garden chair} up four floors. Please thank him!
Ten years on, the {product: cast-iron pan} is still perfect.
The coffee from the new {product: coffee grinder} is wonderful.
You replaced the {product: floor lamp} faster than I could ask; well done.
I bought the {product: bread bin} for my mother in {place: Galway} and she adores it.
Great service, as always.
The {product: reading lamp} gives just the light I hoped for.
My compliments to whoever wrote the instructions for the {product: rice cooker}.
Everything arrived early and beautifully packed in {place: Lyon}.
""",
}


class Name(NamedTuple):
    """Characters of a ticket that name something, the end not included."""

    start: int
    end: int
    label: str


class Ticket(NamedTuple):
    """A ticket without its marks."""

    text: str
    about: str
    names: tuple[Name, ...]


def tickets() -> list[Ticket]:
    """All tickets, one subject after another."""
    return [_ticket(line, about) for about, lines in MARKED.items() for line in lines.strip().splitlines()]


def _ticket(marked: str, about: str) -> Ticket:
    text, at, names = "", 0, []
    for match in MARK.finditer(marked):
        text += marked[at : match.start()]
        names.append(Name(len(text), len(text) + len(match[2]), match[1]))
        text += match[2]
        at = match.end()
    return Ticket(text + marked[at:], about, tuple(names))
